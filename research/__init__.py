"""What a reader of the paper needs: its tables, what lies beyond them, and regret with its bounds.

Not part of the wheel. It may import cosend; nothing in cosend imports it.
"""
