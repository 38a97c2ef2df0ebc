"""One conversation: who speaks when, what is being answered, and what was heard of it."""
