"""Model classes that SGLang computes beside its own; SGLang's registry finds each by its ``EntryClass``."""
