"""The stage graph and what runs it: declaration, placement, coordinator, stages, processes and their supervisor."""
