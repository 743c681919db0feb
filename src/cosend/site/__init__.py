"""A site without input and output: items in, decisions and requests out; labels in, rewards and forwards out."""
