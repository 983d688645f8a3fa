"""The text browser as an environment for other people's trainers, by the OpenEnv protocol."""
