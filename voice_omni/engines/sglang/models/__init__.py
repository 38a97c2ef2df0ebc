"""Models that SGLang does not have, as classes that it finds by the architecture's name in ``config.json``."""
