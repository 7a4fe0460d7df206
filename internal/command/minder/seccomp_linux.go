package minder

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// newNamespaces are the flags of clone and unshare that make namespaces. clone has no bit for one of time.
const newNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// denied lists the calls that no command needs and that affect other processes or the kernel.
var denied = []uintptr{
	// Other processes.
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE, unix.SYS_KCMP, unix.SYS_PIDFD_GETFD,
	unix.SYS_MOVE_PAGES, unix.SYS_MIGRATE_PAGES,
	// Namespaces and mounts.
	unix.SYS_SETNS, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_OPEN_TREE_ATTR,
	unix.SYS_FSOPEN, unix.SYS_FSMOUNT, unix.SYS_FSCONFIG, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, unix.SYS_OPEN_BY_HANDLE_AT,
	// The kernel.
	unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_REBOOT,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_FANOTIFY_INIT, unix.SYS_SYSLOG,
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	// The machine.
	unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_VHANGUP,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
}

// Where the kernel puts the data that a filter examines.
const (
	atCall = 0
	atArch = 4
	atArgs = 16 // eight bytes each, the low half first on both architectures
)

// Seccomp reports whether commands can be filtered on this architecture and kernel.
func Seccomp() bool {
	if auditArch == 0 {
		return false
	}
	action := uint32(unix.SECCOMP_RET_KILL_PROCESS)
	_, _, err := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
	return err == 0
}

// filter is a program under construction.
type filter []unix.SockFilter

func (f *filter) add(code uint16, k uint32, yes, no uint8) {
	*f = append(*f, unix.SockFilter{Code: code, Jt: yes, Jf: no, K: k})
}

func (f *filter) load(at uint32)    { f.add(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, at, 0, 0) }
func (f *filter) answer(act uint32) { f.add(unix.BPF_RET|unix.BPF_K, act, 0, 0) }

// refuse answers a call with an error.
func (f *filter) refuse(e unix.Errno) { f.answer(unix.SECCOMP_RET_ERRNO | uint32(e)) }

// call answers one call with an error.
func (f *filter) call(nr uintptr, e unix.Errno) {
	f.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, uint32(nr), 0, 1)
	f.refuse(e)
}

// test is a condition on the low half of an argument.
type test struct {
	arg   uint32
	mask  uint32 // of the bits to test
	any   bool   // refuse when any of them is set
	not   bool   // refuse when they are not value
	value uint32
}

// callIf answers a call with an error if its argument passes the test.
func (f *filter) callIf(nr uintptr, t test, e unix.Errno) {
	var part filter
	part.load(atArgs + 8*t.arg)
	part.add(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, t.mask, 0, 0)
	switch {
	case t.any:
		part.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 0, 1, 0)
	case t.not:
		part.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, t.value, 1, 0)
	default:
		part.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, t.value, 0, 1)
	}
	part.refuse(e)
	part.load(atCall)
	f.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, uint32(nr), 0, uint8(len(part)))
	*f = append(*f, part...)
}

const every = ^uint32(0)

// program returns the filter of a command: everything is allowed except what it names.
func program(noSockets, noTruncate bool) filter {
	var f filter
	f.load(atArch)
	f.add(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, auditArch, 1, 0)
	f.answer(unix.SECCOMP_RET_KILL_PROCESS) // 32-bit programs have other numbers for everything below
	f.load(atCall)
	if x32 != 0 { // the same architecture with other numbers
		f.add(unix.BPF_JMP|unix.BPF_JGE|unix.BPF_K, x32, 0, 1)
		f.answer(unix.SECCOMP_RET_KILL_PROCESS)
	}
	for _, nr := range denied {
		f.call(nr, unix.EPERM)
	}
	for _, nr := range deniedHere {
		f.call(nr, unix.EPERM)
	}
	f.call(unix.SYS_CLONE3, unix.ENOSYS) // a filter cannot see its flags; programs fall back to clone
	f.callIf(unix.SYS_CLONE, test{arg: 0, mask: newNamespaces, any: true}, unix.EPERM)
	f.callIf(unix.SYS_UNSHARE, test{arg: 0, mask: newNamespaces | unix.CLONE_NEWTIME, any: true}, unix.EPERM)
	f.callIf(unix.SYS_PRLIMIT64, test{arg: 0, mask: every, not: true, value: 0}, unix.EPERM) // of other processes
	f.callIf(unix.SYS_IOCTL, test{arg: 1, mask: every, value: unix.TIOCSTI}, unix.EPERM)
	f.callIf(unix.SYS_IOCTL, test{arg: 1, mask: every, value: unix.TIOCLINUX}, unix.EPERM)
	f.callIf(unix.SYS_SOCKET, test{arg: 0, mask: every, value: unix.AF_VSOCK}, unix.EAFNOSUPPORT) // no namespace holds it
	if noSockets {
		f.callIf(unix.SYS_SOCKET, test{arg: 0, mask: every, value: unix.AF_UNIX}, unix.EACCES)
		for _, kind := range []uint32{unix.SOCK_DGRAM, unix.SOCK_RAW} { // one of a pair can be reconnected elsewhere
			f.callIf(unix.SYS_SOCKETPAIR, test{arg: 1, mask: 0xf, value: kind}, unix.EACCES)
		}
	}
	if noTruncate {
		f.call(unix.SYS_TRUNCATE, unix.EPERM)
	}
	f.answer(unix.SECCOMP_RET_ALLOW)
	return f
}

// shield installs the filter on this thread, and on what it executes. It needs no_new_privs.
func shield(spec Spec) error {
	if auditArch == 0 {
		if spec.NoSockets {
			return errors.New("filter system calls: not on " + runtime.GOARCH)
		}
		return nil
	}
	f := program(spec.NoSockets, spec.Files != nil && Landlock() < TruncateABI)
	p := unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]}
	_, _, err := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&p)))
	if err != 0 && !(errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL)) || err != 0 && spec.NoSockets {
		return fmt.Errorf("filter system calls: %w", err)
	}
	return nil
}
