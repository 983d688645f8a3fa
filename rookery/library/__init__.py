"""Libraries: where pages are found, searched, archived and recorded."""
