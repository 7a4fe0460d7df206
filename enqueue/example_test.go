package enqueue_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/jackc/pgx/v5"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/enqueue"
)

func ExampleInsert() {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close(ctx)
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO purchases (id) VALUES ($1)", 4711); err != nil {
			return err
		}
		made, err := enqueue.Insert(ctx, tx, enqueue.Options{}, client.JobRequest{
			Name: "send receipt",
			Execution: client.Target{
				CallbackURL: "https://shop.example/receipts", Payload: []byte(`{"purchase": 4711}`),
				Headers: map[string]string{"Authorization": "Bearer ${secret:shop-token}"},
			},
		})
		if err != nil {
			return err
		}
		fmt.Println("created", made[0].JobID, "if this commits")
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}
