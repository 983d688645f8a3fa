"""ask, browse, cite, draft, judge, learn, measure, serve: from question to reader."""

__version__ = "0.1.0"
