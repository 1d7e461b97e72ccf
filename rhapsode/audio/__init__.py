"""From takes to an audiobook: the store of takes, chapter tracks, and the file that a player opens.

Knows sound as PCM, disks and containers. Knows no book format, no model and no accelerator.
"""
