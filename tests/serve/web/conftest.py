"""A desk, a site and a browser for the tests of the pages."""

from sites import browser, opened, site

__all__ = ["browser", "opened", "site"]
