"""How a call runs: plans, threads, the background loop, deadlines, streams. Nothing here knows what a ToolSpec is."""
