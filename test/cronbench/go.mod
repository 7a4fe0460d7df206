module github.com/carillon-jobs/carillon/test/cronbench

go 1.26.0

require (
	github.com/carillon-jobs/carillon v0.0.0
	github.com/robfig/cron/v3 v3.0.1
)

replace github.com/carillon-jobs/carillon => ../..
