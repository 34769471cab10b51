"""Who may do what: identities and scopes, tokens, allowed environments, and shares."""
