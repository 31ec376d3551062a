"""Files of a few folders, and of no others, whatever paths and links say."""
