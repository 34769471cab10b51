"""OpenEnv's protocol, with which trainers of language models use environments."""
