package matrix

import "slices"

// Point is something that a review of the whole product found broken, and that the product promises since.
type Point struct {
	Promise string
	Tests   []Test
	Missing string // the part that no test proves
}

// Subject is a part of the review.
type Subject struct {
	Name   string
	Points []Point
}

const (
	api        = "internal/api"
	app        = "internal/app"
	attack     = "test/attack"
	dispatch   = "internal/dispatch"
	pick       = "internal/core/pick"
	core       = "internal/core/job"
	expression = "internal/expression"
	secret     = "internal/secret"
	service    = "internal/service"
	sim        = "internal/sim"
	telemetry  = "internal/telemetry"
	worker     = "worker"
)

// Review is the review, by subject.
var Review = []Subject{
	{"Security", security},
	{"Behaviour", behaviour},
	{"The hot path", hotPath},
	{"The tests", theTests},
}

var security = []Point{
	{Promise: "Expressions cannot exhaust a server's memory: operands, results and time are bounded, the payload quota comes first, and few are evaluated at once", Tests: slices.Concat(
		in(expression, "TestMemoryOfOneEvaluation", "TestBudgetRefuses", "TestEvaluationsTakeTurns", "FuzzMemory"), in(api, "TestPlansOfAViewerStayWithinMemory", "TestThePayloadQuotaIsJudgedBeforeExpressions"), in(attack, "TestExpressions"))},
	{Promise: "A process with the store or the API runs no commands unless it is told so in as many words", Tests: slices.Concat(
		in(app, "TestAServerRunsNoCommandsUnlessTold"), in(e2e, "TestAServerRunsCommandsOnlyIfToldSo", "TestAServerRefusesCommandsThatItCannotConfine", "TestACommandCannotTakeOverItsServer"), in(attack, "TestServeRefusesCommands", "TestCommands"))},
	{Promise: "Commands are confined: files, system calls, user namespaces, memory, the kernel's choice of what to end, the network, other processes", Tests: slices.Concat(
		in(command, "TestNothingEscapes", "TestTheFilterKnowsOneWayIn", "TestACommandCannotEndItsMinder", "TestAMemoryHogEndsAlone", "TestAMemoryHogEndsInItsControlGroup", "TestTheKernelEndsTheCommandFirst", "TestNoNetwork", "TestAHardenedProcessStillRunsCommands"))},
	{Promise: "Only listed programs run, by digest, and none can be swapped after the check", Tests: in(command, "TestOnlyListedProgramsRun", "TestAProgramCannotBeSwappedAfterTheCheck")},
	{Promise: "Nothing of a secret leaves a server, whatever its encoding and however its lines are wrapped or cut: logs, errors, results, answers, events, traces, support bundles, notifications, exports", Tests: slices.Concat(
		in(app, "TestNoWayOutTellsASecret"), in(secret, "TestNothingOfASecretIsLeft", "TestNothingIsLeftInLines", "TestNothingOfACutSecretIsLeft", "TestNothingOfASecretThatIsEncodedTwiceIsLeft"), in(api, "TestNoSecretIsInASupportBundle", "TestALineIsCutWhenItIsConcealed"), in(attack, "TestSecretsStayHidden"))},
	{Promise: "A revoked credential is worth nothing after 5 s, on any server, also on an open long poll or stream", Tests: slices.Concat(
		in(api, "TestARevokedKeyEndsItsOpenClaim", "TestWhatWasLeasedForARevokedKeyIsGivenBack", "TestARevokedKeyEndsItsStreams", "TestARevokedKeyStartsNothing"), in("internal/access", "TestARevokedCredentialAfterTheClockWasSetBack"), in(attack, "TestRevokedKeys"))},
	{Promise: "Hidden headers and variables stay with the origin and the program they were given for; a redirect to another origin carries no payload with secrets", Tests: slices.Concat(
		in(e2e, "TestHiddenCredentialsStayWhereTheyWereGiven", "TestHiddenVariablesStayWithTheirProgram"), in(secret, "TestAGuessedReferenceDoesNotMoveACredential", "TestAHiddenCredentialIsOpenedForItsJobOnly"), in(executor, "TestPayloadsWithSecretsStayWithTheirOrigin", "TestHeadersStayWithTheirOrigin"), in(attack, "TestHiddenVariables"))},
	{Promise: "`carillon dev` answers its user only; other sites' pages are refused, also for reads", Tests: slices.Concat(
		in(e2e, "TestDevAnswersItsUserOnly", "TestDevTokenOpensABrowser", "TestCommandLineFindsTheDevToken"), in(api, "TestLocalToken", "TestPagesOfOtherSites"), in(attack, "TestNeighbours", "TestDevelopersMachine", "TestBrowsers"))},
	{Promise: "PostgreSQL's role of user requests may do to each table what was decided, and no more; servers run with a role that owns no tables", Tests: in(onPG, "TestTheWallIsVertical", "TestTheWallHoldsAgainstEscalation", "TestTheWallTakesBack", "TestRolesApart", "TestRolesThatDoNotFit", "TestStoreThatOwnsNothing")},
	{Promise: "Failed authentication is logged, counted and audited, within bounds; requests are limited by address before authentication", Tests: in(api, "TestFailedAuthenticationIsLoggedCountedAndAudited", "TestFailedAuthenticationFillsNoDisk", "TestRequestsWithoutAProvenCredentialAreHeldToARate", "TestOneWrongKeyLocksOutNobody")},
	{Promise: "Reading a support bundle is audited; rotating a key keeps its expiry; worker registration is rationed", Tests: slices.Concat(in(api, "TestReadingASupportBundleIsAudited", "TestKeysOverHTTP", "TestWorkerRegistrationIsRationed"), in(service, "TestWorkerRegistrationHasARate"))},
	{Promise: "Literal credentials in `Cookie` and in variables are sealed", Tests: slices.Concat(in(secret, "TestCredential", "TestVariable"), in(api, "TestVariablesAreSealed", "TestVariablesWithoutAKey"))},
	{Promise: "The issuer's keys are fetched under the rules for callbacks; a JWT with `crit` is refused", Tests: slices.Concat(in(app, "TestTheIssuersKeysAreReadThroughTheGuard", "TestTheIssuersKeysAreReadByTheRulesForCallbacks"), in("internal/access", "TestTokensOfASecret"), in(attack, "TestCredentials"))},
	{Promise: "TLS 1.3, mutual TLS between worker and server, and a warning where a worker speaks plain http", Tests: in(app, "TestTLS", "TestTheOldestTLS", "TestMutualTLS", "TestAWorkerWarnsOfPlainHTTP")},
	{Promise: "Callbacks: https only, ports, an egress proxy, and bounds on what one host is sent", Tests: slices.Concat(in(executor, "TestHTTPSOnly", "TestPorts", "TestCallbacksGoThroughTheProxy", "TestTheGuardHoldsBeforeTheProxy", "TestPaceOfAHost", "TestTenantsShareAHost"), in(api, "TestAPortIsRefusedWhenItIsStored", "TestHTTPSOnlyOfATenant"), in(attack, "TestReach", "TestReachIsNarrowed"))},
	{Promise: "Workers get the values of secrets when an attempt begins; secrets may be kept elsewhere", Tests: slices.Concat(in(api, "TestValuesComeWithTheStart", "TestAWorkerThatClaimsAheadHasNoValues"), in(worker, "TestValuesComeWhenAnAttemptBegins"), in(app, "TestSecretBackends"), in("internal/secret/backend", "TestVault", "TestFiles"))},
	{Promise: "Callbacks are signed from the start; the secret is shown once", Tests: slices.Concat(in(api, "TestSignedFromTheStart", "TestASigningSecretIsShownAgainToItsMakerOnly"), in(e2e, "TestServeSignsFromTheStart"))},
}

var behaviour = []Point{
	{Promise: "Every attempt is listed, also one that runs and one that succeeded", Tests: slices.Concat(in(api, "TestAttemptsAreAllListed"), suite("every attempt"))},
	{Promise: "What waits is counted exactly, above a million too", Tests: slices.Concat(in(dispatch, "TestLoadsAreExact", "TestACountOutlastsWhoAsksForIt"), in(onSQLite, "TestDueAtScale"), in(onPG, "TestDueAtScale", "TestDueIsCountedInPieces", "TestCensusOfVeryMuch"))},
	{Promise: "A delay counts from when a job could first fire: one that is created for the past is not late by years", Tests: slices.Concat(in(api, "TestAJobInThePastIsNotLate"), in(core, "TestDelays"), in(telemetry, "TestEndToEndOfAJobInThePast"))},
	{Promise: "Backfilled and caught-up instants have outcomes of their own, also while they wait", Tests: in(service, "TestOccurrences", "TestOccurrencesThatHaveNotStarted")},
	{Promise: "Deleting a job can end what runs; `/health` answers; API paths at the root lead to the API", Tests: slices.Concat(in(api, "TestDeletingAJobCanStopWhatRuns", "TestPathsOfTheAPIAtTheRoot"), in("internal/cli", "TestDeletingAJobThatRuns")), Missing: "the dashboard's own button: its tests are not Go's"},
	{Promise: "The chart scales by itself from 3 to 20 workers; workers report their memory; a panel shows each worker's utilisation", Tests: slices.Concat(in("deploy", "TestTheChartsDefaultsOfScaling", "TestUtilisationOfEachWorkerIsAPanel"), in(api, "TestWorkersReportMemory"))},
	{Promise: "Executions of jobs that run at once have the trigger `api`", Tests: in(api, "TestJobLifeOverHTTP")},
	{Promise: "Jobs that share a concurrency key keep their own rates", Tests: slices.Concat(in(pick, "TestJobsThatShareAKeyKeepTheirOwnRates"), in(dispatch, "TestServersKeepTheRatesOfASharedKey"))},
	{Promise: "What a deleted job or a cancel ended does not count as retried", Tests: slices.Concat(in(core, "TestCame"), in(telemetry, "TestWhatIsOverruled"), in("internal/feed", "TestTalliesOfWhatIsOverruled"))},
	{Promise: "A failure that is reported again is told of once", Tests: slices.Concat(in(api, "TestAFailureThatIsReportedTwiceIsToldOnce"), in("internal/feed", "TestARepeatedResultIsCountedOnce"), in(core, "TestJudge"), suite("finish/a failure is tried again"))},
	{Promise: "What no hint told of is found within a moment", Tests: slices.Concat(in(dispatch, "TestWorkWithoutAHintInALaneThatIsNeverEmpty"), in("enqueue", "TestStartsUntold"))},
	{Promise: "`/readyz` names a full disk within 4 s", Tests: slices.Concat(in(faults, "TestAFullDiskIsNamedWithinFourSeconds", "TestTheDiskIsFull"), in(onSQLite, "TestPingLooksForRoom"))},
}

var hotPath = []Point{
	{Promise: "A large catch-up delays nobody: statements are bounded by the rows they write and halved, what fails is set apart, catch-up is paced", Tests: in(scheduler, "TestALargeCatchUpDelaysNobody", "TestStatementsAreBounded", "TestAStoreThatGivesUp", "TestOneJobThatAlwaysFails", "TestCatchUpRests", "TestCatchUpByTurns", "TestManyTenantsAreBehind")},
	{Promise: "Shares of a limit are given back on time, without claims; `explain` names a share held elsewhere", Tests: in(dispatch, "TestSharesAreGivenBackWithoutClaims", "TestExplainNamesAShareHeldElsewhere", "TestAShareOfALimitThatWasRemovedIsGivenBack")},
	{Promise: "Servers that share a limit share it fairly, however long what they run takes", Tests: slices.Concat(in(dispatch, "TestServersShareALimitFairly"), in(pick, "TestAllotIsFair", "TestAllotNeverExceedsTheLimit", "TestWhatIsGivenBackIsNotUsed"))},
	{Promise: "Recovery is not paced by what has finished: a dead worker's executions are queued within 10 s of their lease's end", Tests: slices.Concat(in("internal/upkeep", "TestRecoveryIsNotPacedByWhatHasFinished", "TestReaper"), suite("reap/the latest first, until nothing is left"))},
	{Promise: "A raised rate holds at once, for what waits too", Tests: slices.Concat(in(core, "TestRescale"), in(dispatch, "TestARaisedRateHoldsForWhatWaits"), in(api, "TestLimitsOfAJobThatWaits"), suite("buckets"))},
	{Promise: "SQLite's leases outlast a clock that is set", Tests: in(onSQLite, "TestLeasesOutlastAClockThatIsSet", "TestAClockThatDrifts")},
	{Promise: "A job with very many waiting executions is deleted at once, and the rest follows in pieces", Tests: slices.Concat(in(api, "TestDeleteOfAJobWithABacklog"), in(onPG, "TestDeleteOfVeryManyThatWait"), suite("delete/cancels what waits in pieces"))},
	{Promise: "A pause holds the retries of what a schedule fired", Tests: slices.Concat(in(onSQLite, "TestPauseHoldsRetries"), suite("pauses of jobs/what waits for a retry when the pause begins"))},
	{Promise: "No migration keeps a table from its users for long", Tests: slices.Concat(in(onPG, "TestStepsOverLargeTables", "TestAStepThatWaitsForATable"), in(faults, "TestLocksAreSeen"))},
	{Promise: "A server that starts among very many leases looks through them in pieces", Tests: slices.Concat(in(onSQLite, "TestTheFirstLookAtVeryManyLeases"), in(onPG, "TestTheFirstLookAtVeryManyLeases"))},
	{Promise: "What was claimed over a connection that broke is handed back at once", Tests: in(api, "TestAClaimWhoseConnectionBreaksIsHandedBack")},
	{Promise: "Schedules that cannot be worked out hide no healthy ones, however many they are", Tests: in(scheduler, "TestManySchedulesThatCannotBeRead")},
	{Promise: "`enqueue` notifies in its caller's transaction only if asked to; `Wake` starts the job at once", Tests: in("enqueue", "TestWake", "TestStartsAtOnce")},
	{Promise: "Both stores say the same of a repeated result", Tests: slices.Concat(in(onPG, "TestEnginesAgree"), suite("finish/the same result again is accepted again"))},
}

var theTests = []Point{
	{Promise: "A test that hangs fails, and says where", Tests: in("internal/watchdog", "TestATestThatCannotFinish")},
	{Promise: "A session is not reaped early", Tests: suite("reap/not before its time")},
	{Promise: "The simulation finds a store that ignores pauses and never takes back lost claims, a worker without a fence, a retry that loses its count, a scheduler that goes by its host's clock, and a share that does not shrink", Tests: in(sim, "TestMutantsAreFound", "TestMoreMutantsAreFound", "TestMutantsOfTimeAreFound", "TestAShareThatIsNotShrunkIsFound")},
	{Promise: "The simulation has recurring schedules, overlap, catch-up, changes, pauses, bulk creation, parked executions, several tenants and clocks that differ", Tests: in(sim, "TestSeeds"), Missing: "PostgreSQL's own code: processes over PostgreSQL are broken at random instead (`TestNemesis` in `test/faults`)"},
	{Promise: "Every fault that must be survived has its tests", Tests: in("test/matrix", "TestEveryFaultHasATest")},
	{Promise: "The attacks can be repeated, on loopback alone", Tests: in(attack, "TestCredentials", "TestOtherTenantsIDs", "TestInput", "TestRedirects", "TestWorkers", "TestAbuse")},
}
