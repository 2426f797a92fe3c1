// Empty: a Go package may declare functions without a body only if it has a file in assembly.
