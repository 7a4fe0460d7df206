package matrix

import "slices"

const (
	faults    = "test/faults"
	e2e       = "test/e2e"
	onSQLite  = "internal/engine/sqlite"
	onPG      = "internal/engine/postgres"
	scheduler = "internal/scheduler"
	executor  = "internal/executor"
	command   = "internal/command"
)

// Rows are the faults, by number.
var Rows = []Row{
	{Number: 1, Fault: "the API is killed after its commit, before it answers", Both: in(faults, "TestPoints/api.afterCommitBeforeReply")},
	{Number: 2, Fault: "the API is killed before its commit", Both: in(faults, "TestPoints/api.beforeCommit")},
	{Number: 3, Fault: "the scheduler is killed before its commit", Both: in(faults, "TestPoints/sched.afterInsertBeforeCommit")},
	{Number: 4, Fault: "the scheduler is killed after its commit, before it tells anybody", Both: in(faults, "TestPoints/sched.afterCommitBeforeNotify")},
	{Number: 5, Fault: "a worker is killed after its claim, before the call", Both: in(faults, "TestPoints/worker.afterClaim", "TestPoints/worker.beforeEffect")},
	{Number: 6, Fault: "a worker is killed during the call, or after it", Both: in(faults, "TestPoints/worker.duringEffect", "TestPoints/worker.afterEffectBeforeComplete")},
	{Number: 7, Fault: "a worker is killed after it has reported, before it is answered", Both: in(faults, "TestPoints/worker.afterCompleteBeforeAck")},
	{Number: 8, Fault: "a worker stands still for three leases, and goes on", Both: slices.Concat(in(faults, "TestAWorkerStandsStill"), in(e2e, "TestAPausePastTheLease"))},
	{Number: 9, Fault: "a worker stands still for moments; its machine is busy", Both: in(faults, "TestShortPausesCostNothing", "TestABusyMachineCostsNothing")},
	{Number: 10, Fault: "a worker is cut off from the server, both ways or one way", Both: in(faults, "TestAWorkerIsCutOff"), Plain: in("worker", "TestUnansweredBeatsEndTheSession", "TestABeatThatHangsDoesNotHoldUpTheFence")},
	{Number: 11, Fault: "a server is cut off from its store", Postgres: slices.Concat(in(faults, "TestTheDatabaseIsCutOff"), in(e2e, "TestTheStoreGoesAwayAndComesBack"), in(onPG, "TestAServerThatDoesNotAnswerIsAwayWithinTwoSeconds")),
		Why: "SQLite is in the server's own process"},
	{Number: 12, Fault: "two schedulers believe that they own a partition", Both: suite("owners", "fire"), Postgres: slices.Concat(in(faults, "TestOwnersThatChangeAllTheTime", "TestManySchedulers"), in(onPG, "TestATakeoverWaitsForFires", "TestATakeoverWaitsForLeases")),
		SQLite: slices.Concat(in(e2e, "TestASecondServerOnOneFile"), in(onSQLite, "TestOneStoreAFile")), Missing: "a pooler in transaction mode, which is not supported"},
	{Number: 13, Fault: "the store crashes under load", Both: in(faults, "TestAMapThatIsKilledWhileItExpands"), SQLite: in(e2e, "TestWhatIsAcknowledgedSurvivesKill9/sqlite", "TestKill9InTheMiddleOfARun/sqlite"), Postgres: in(faults, "TestTheDatabaseCrashesUnderLoad")},
	{Number: 14, Fault: "failover to a standby, which may be behind", Postgres: slices.Concat(in(faults, "TestFailoverToAStandbyThatHasEverything", "TestFailoverToAStandbyThatIsBehind"), in(onPG, "TestANewHistoryBeginsANewEpoch")), Why: "SQLite has no standby"},
	{Number: 15, Fault: "commits that are reported as failed", Both: in(faults, "TestCommitsThatAreReportedAsFailed", "TestPoints/workflow.beforeCommit"), SQLite: in("internal/sim", "TestSeeds")},
	{Number: 16, Fault: "the store is slow, then hangs", Postgres: slices.Concat(in(faults, "TestAProcessOfTheDatabaseStandsStill", "TestTheDatabaseIsCutOff"), in(onPG, "TestASlowStatementIsNotAServerThatIsAway", "TestAForgottenConnectionIsNotAServerThatIsAway")),
		Plain: in("internal/service", "TestASlowStoreShedsCreationsBeforeBeatsSuffer", "TestASlowStoreShedsTriggers"), Why: "SQLite is in the server's own process: a disk that hangs holds up the server, and `TestASlowStore…` plays a store that is slow"},
	{Number: 17, Fault: "the disk is full", Both: in(faults, "TestTheDiskIsFull", "TestAFullDiskIsNamedWithinFourSeconds"), SQLite: in(onSQLite, "TestFullDisk", "TestPingLooksForRoom"), Postgres: in(onPG, "TestPingLooksForRoom"), Missing: "nothing is refused at 90 %, and nothing is kept in reserve"},
	{Number: 18, Fault: "the disk reports an error (EIO) when data is made durable", Both: in(faults, "TestTheDiskReportsAnError"), SQLite: in(onSQLite, "TestADiskThatDoesNotKeepWhatItTook")},
	{Number: 19, Fault: "the database has no connection left", Postgres: in(faults, "TestTheDatabaseHasNoConnectionLeft"), Why: "SQLite has no connections that others could take"},
	{Number: 20, Fault: "deadlocks, and very many claims at once", Both: suite("lease/no two workers hold one, however many try", "fire/once, however many try"), Postgres: in(onPG, "TestDeadlocksAreTriedAgain", "TestTwoLeasesOfOneRow")},
	{Number: 21, Fault: "a clock jumps ahead", SQLite: slices.Concat(in(onSQLite, "TestLeasesOutlastAClockThatIsSet", "TestDueTimesAndAClockThatIsSet"), in(scheduler, "TestAHostClockThatJumps")), Postgres: in(faults, "TestWrongClocks"),
		Plain: slices.Concat(in(scheduler, "TestAClockThatJumpsForward"), in("internal/clock", "TestThisMachinesClockIsSet", "TestTheFollowedClockIsSet")), Missing: "the clock of PostgreSQL's own machine. On SQLite, whose only clock is the host's, a job fires early if it is set ahead"},
	{Number: 22, Fault: "a clock jumps back, or drifts", SQLite: slices.Concat(in(onSQLite, "TestLeasesOutlastAClockThatIsSet", "TestAClockThatDrifts"), in(scheduler, "TestAHostClockThatJumps")), Postgres: in(faults, "TestWrongClocks"),
		Plain: in(scheduler, "TestAClockThatJumpsBack"), Missing: "the clock of PostgreSQL's own machine. `TestAHostClockThatJumps` has SQLite's clock stand still"},
	{Number: 23, Fault: "clocks change to summer time and back; zones; leap days", Plain: slices.Concat(in("internal/core/schedule", "TestClockChanges", "TestZoneTable", "TestVectors", "TestAgainstReference", "TestDaysAgainstReference"), in(scheduler, "TestDaysOnWhichTheClocksChange")), Why: "schedules are worked out by pure functions"},
	{Number: 24, Fault: "requests, claims and results that come twice", Both: suite("finish/the same result again is accepted again", "idempotency/the same request again", "idempotency/twice in one call"), SQLite: in("internal/sim", "TestSeeds")},
	{Number: 25, Fault: "a payload that kills its worker", Both: slices.Concat(in(faults, "TestPoison"), in(e2e, "TestPoison"), suite("hand back/what keeps killing its workers ends"))},
	{Number: 26, Fault: "500 000 are due in one second", Both: in("internal/bench", "TestHerd"), Plain: in(scheduler, "TestAHerdIsStagedEarly", "TestHintsAreBounded"), Missing: "the tests have 2 000; `make bench-herd` has 500 000 on each store, and its figures are in benchmarks"},
	{Number: 27, Fault: "everything was down for two hours", Both: slices.Concat(in(faults, "TestEverythingWasDownForTwoHours"), in(scheduler, "TestALargeCatchUpDelaysNobody", "TestACatchUpThatIsKilled")), Plain: in(scheduler, "TestCatchUp", "TestCatchUpRests", "TestCatchUpByTurns")},
	{Number: 28, Fault: "two versions at once, there and back", Both: in(faults, "TestUpgrade", "TestUpgradeOfItself"), Postgres: slices.Concat(in("enqueue", "TestOtherVersion"), in("internal/app", "TestAServerDoesNotMigrateUnderOthers")),
		Missing: "SQLite is for one process: there one version follows the other. No version has a tag yet: `make test-upgrade FROM=COMMIT` names one"},
	{Number: 29, Fault: "a migration under load; it is killed", Both: in(faults, "TestPoints/migrate.midStep"), Postgres: slices.Concat(in(faults, "TestUpgrade", "TestLocksAreSeen"), in(onPG, "TestStepsInParts", "TestStepsOverLargeTables", "TestAStepThatWaitsForATable"), in("internal/app", "TestAStepThatStopsServersIsRefusedWhileTheyLive"))},
	{Number: 30, Fault: "accelerators (Redis, Kafka) are lost, flushed or stale", Why: "there are no accelerators yet (issue 24)", Missing: "all of it"},
	{Number: 31, Fault: "an archived file is damaged", SQLite: in("internal/history", "TestDamagedFiles"), Plain: in("internal/archive", "TestDamage"), Why: "files are read by the same code over any store"},
	{Number: 32, Fault: "a crash while data moves between tiers", Both: suite("archive"), SQLite: in("internal/history", "TestKilledAnywhere", "TestTwoMovers"), Missing: "the mover is stopped at each of its calls, in one process; no process is killed"},
	{Number: 33, Fault: "the object store is away or slow", SQLite: in("internal/history", "TestAPlaceThatIsAway"), Why: "files are read and written by the same code over any store", Missing: "one that is slow"},
	{Number: 34, Fault: "huge payloads, outputs and logs", Plain: slices.Concat(in(command, "TestAFloodOfOutputIsCut", "TestAFileMayNotBecomeTooLarge", "TestAMemoryHogEndsAlone"), in("test/attack", "TestInput"), in("internal/strictjson", "TestRefuseSyntax"), in("internal/api", "TestALineIsCutWhenItIsConcealed")),
		Both: suite("logs"), SQLite: in("internal/api", "TestLimitsAndTenants", "TestALoudJobLosesNoLine")},
	{Number: 35, Fault: "a target never answers", Plain: in(executor, "TestTimeouts", "TestFirstByte", "TestCancellation"), Why: "no store takes part in a call"},
	{Number: 36, Fault: "a target answers slowly, endlessly, or with a flood of headers", Plain: in(executor, "TestTimeouts", "TestEndlessBodyIsCutOff", "TestHeaderFloodIsCutOff"), Why: "no store takes part in a call"},
	{Number: 37, Fault: "one host among many is dead", Plain: in(executor, "TestADeadHostIsLeftAlone", "TestBreakerOpensAndCloses", "TestRetryAfter"), SQLite: in("internal/api", "TestADeadHostPutsOffItsExecutions"), Why: "no store takes part in a call"},
	{Number: 38, Fault: "names do not resolve, or resolve to other addresses", Plain: in(executor, "TestNamesThatDoNotResolve", "TestRebindingNameIsCheckedOnEveryDial"), Why: "no store takes part in a call"},
	{Number: 39, Fault: "redirects to internal addresses; wrong certificates", Plain: slices.Concat(in(executor, "TestRedirectIsNotFollowedUnlessAsked", "TestRedirectsThatAreRefused", "TestTLSErrors"), in("test/attack", "TestRedirects", "TestReach")), Why: "no store takes part in a call"},
	{Number: 40, Fault: "a command ignores SIGTERM, forks, fills the disk", Plain: slices.Concat(in(command, "TestWhatIgnoresTermIsKilledWithAllItsChildren", "TestChildrenThatStayBehindEndWithTheCommand", "TestAForkBombIsBounded", "TestAFileMayNotBecomeTooLarge", "TestADeadWorkersCommandsAndFoldersGo"), in(e2e, "TestCommandsAreStopped")), Why: "no store takes part in a command"},
	{Number: 41, Fault: "the answer to a claim is lost", Both: in(faults, "TestTheAnswerToAClaimIsLost", "TestPoints/worker.afterClaim"), SQLite: in("internal/sim", "TestMutantsAreFound")},
	{Number: 42, Fault: "10 000 workers come back at once", Both: in(faults, "TestVeryManyWorkersComeBackAtOnce"), Plain: in("internal/service", "TestWorkerRegistrationHasARate"), Missing: "`make test` has 700 workers, `make faults-all` 10 000"},
	{Number: 43, Fault: "a worker is told to stop, once and twice", Both: slices.Concat(in(faults, "TestAWorkerIsToldToStop", "TestPoints/shutdown.midDrain"), in(e2e, "TestSIGTERMDrains", "TestWhatDoesNotEndInTimeIsHandedBackAtOnce"))},
	{Number: 44, Fault: "no file descriptor is left", Both: in(faults, "TestNoFileDescriptorIsLeft"), Missing: "goroutines have no limit that could be reached"},
	{Number: 45, Fault: "a cancel races with a result; pause and delete race with a fire", Both: slices.Concat(suite("cancel/one outcome, however cancel, lease and result race", "finish/one result wins, however many race"), in(faults, "TestRunsThatSeveralActOn")),
		Postgres: in(onPG, "TestNoFireOfAJobThatIsBeingUpdated", "TestNothingComesBackThatIsBeingCancelled", "TestNothingComesBackToAJobThatIsBeingDeleted"), SQLite: in("internal/sim", "TestSeeds")},
	{Number: 46, Fault: "a restore while workers hold newer tokens", Both: in(faults, "TestARestoreUnderAWorker"), SQLite: slices.Concat(in(onSQLite, "TestRestore"), in(e2e, "TestBackupOfARunningServer")), Postgres: in(onPG, "TestANewHistoryBeginsANewEpoch", "TestARoleThatMayNotBeginAnEpoch"), Plain: in("internal/engine", "TestEpochs")},
}
