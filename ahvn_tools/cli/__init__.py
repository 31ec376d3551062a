"""The command `ahvn-tools`: one module for each command.

`app` parses the command line and makes errors exit codes. `sources` has the options that commands with sources share,
and loads them. `output` prints to terminals and pipes, `tool_facts` says what is printed of a tool.
"""
