"""The version, which is that of the program."""
__version__ = "0.1.0"
