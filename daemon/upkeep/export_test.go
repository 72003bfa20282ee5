package upkeep

const (
	SweepInterval = sweepInterval
	LeaseRenewal  = leaseRenewal
)
