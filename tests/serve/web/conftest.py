"""A desk, a site and a browser for the tests of the pages."""

from sites import browser, empty_store, opened, site

__all__ = ["browser", "empty_store", "opened", "site"]
