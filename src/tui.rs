//! The terminal: panes, widgets, themes, keys. Draws a snapshot, never changes one.
