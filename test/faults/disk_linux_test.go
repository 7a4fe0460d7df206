package faults

import "syscall"

func mount(dir, size string) error {
	return syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size+",mode=0755")
}

func unmount(dir string) error { return syscall.Unmount(dir, 0) }
