package tools

// NamesDevice lets what Windows refuses be tested on every system.
var NamesDevice = namesDevice
