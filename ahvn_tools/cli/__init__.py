"""The command `ahvn-tools`: one module a subcommand, `app.py` runs them and says what went wrong."""
