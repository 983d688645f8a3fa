"""Pages: any bytes read as a Page with one canonical text, in which every offset points."""
