package queue

// MountType is the type in a line of mountinfo that is about device.
func MountType(line, device string) string { return mountType(line, device) }

// NetworkTypes are the file systems that are refused.
func NetworkTypes() []string { return networkTypes }
