"""HTML: its parser, what styles hide, the choice of the article, and the page's text."""
