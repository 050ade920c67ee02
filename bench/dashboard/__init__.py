"""The dashboard over a large history: how it is made (history), and how fast pages open then (pages)."""
