"""Compiled code → kernel descriptions: SASS says what runs, PTX helps to say where."""
