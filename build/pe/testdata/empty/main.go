// Command empty is the smallest program there is.
package main

func main() {}
