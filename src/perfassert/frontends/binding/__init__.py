"""Binding of a program to one launch: arguments, constants, places of accesses."""
