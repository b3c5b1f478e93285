"""Compiled code → kernel descriptions: SASS says what executes, PTX helps to say what it touches."""
