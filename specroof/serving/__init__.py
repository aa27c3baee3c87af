"""What a server adds to passes and rounds: requests, limits, queues, its own flags."""
