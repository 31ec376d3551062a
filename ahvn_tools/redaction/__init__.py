"""Redaction: `names` says whether a name or a parameter is secret; `texts` returns texts and JSON without secrets.

`values` finds secrets in values, `credentials` masks those in URLs and DSNs, `logs` hides data of protocol libraries.
"""
