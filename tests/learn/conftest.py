"""The fixture that all tests of training share."""

from precision import float32

__all__ = ["float32"]
