"""The command `ahvn-tools`: `app` parses the command line, and `loader` finds the tools that it names."""
