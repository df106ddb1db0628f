package queue_test

func child(string) int { return 0 }
