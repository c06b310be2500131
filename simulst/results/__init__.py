"""Results as data: what was measured lies in results/<recipe>/<section>.json, and pages are rendered from it alone."""
