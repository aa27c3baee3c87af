"""One file a question: a request in, an answer with notes out; no printing, no files."""
