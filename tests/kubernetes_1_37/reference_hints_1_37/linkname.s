// Empty: it lets hints.go declare a function without a body.
