//! Tiers, probe, kernel tables, runtime, op graph, planner and executor.
