"""The paper's experiment: intrusion detection on KDD Cup 1999, Tables 3 to 5."""
