"""Attacks: each file is a family, each row of its table an attack and what must hold."""
