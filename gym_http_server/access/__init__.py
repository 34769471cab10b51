"""Who may do what: identities and scopes, tokens, and shares of what all need."""
