"""The command `ahvn-tools`: `app` parses the command line, and each subcommand is one module."""
