"""The process of one package: it measures a row when it is asked."""
