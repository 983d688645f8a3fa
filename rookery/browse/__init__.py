"""Pages: search, fetch, simplify, and the libraries that hold them."""
