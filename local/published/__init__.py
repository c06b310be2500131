"""What is published of results: sections as data, and the pages that are rendered from them."""
